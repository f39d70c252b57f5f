// Package transport answers raw requests of one dialect behind the replay gate: as an
// http.RoundTripper, for a program that uses an SDK, and as an Exchange, for a gateway.
//
// It promises:
//
//   - In one dialect the request's bytes go out, and the answer's frames come back, unchanged but for
//     the model's name and the blank lines between frames. Nothing is decoded into structures: a
//     request costs one scan for the few fields that say where it goes and what it may do there,
//     a frame costs the look that says what it shows.
//   - There is one loop, recovery.Do, and one definition of published, llm/replay's: the client's
//     body is its sink. Nothing is sent to the client before there is output: what a failed
//     attempt had begun is dropped, and the client sees the preamble of the one that went
//     through. Tool calls come with the answer's end or not at all, and so does the frame that
//     says why the answer is about to end: a broken answer never looks whole.
//   - A failure before the first output is a status, in the dialect's own form, which says
//     honestly whether and when to come back, and 400 where coming back is of no use. One after it
//     keeps what was shown, closes what is open and ends in the words that clients do not repeat
//     by themselves (wire.Tail); where the dialect has none, the connection is cut.
//   - While nothing can be sent, an Exchange keeps the connection alive. That sends the status:
//     a failure after it ends as one after output does, although nothing was shown, and who
//     answered is said in the trailer.
//   - An answer that is not streamed is one frame, so that it is repeated, until it is whole, like
//     any other of which nothing was shown.
//   - A model of another dialect (recovery.Entry.Dialect) is told the request in its own words, and
//     answers in the client's. The request is read when such a model's turn may have come, not
//     before; where it would not be told everything, the model is not asked, and the refusal names
//     what would be lost (wire.Loss).
//
// It refuses to choose who may answer (Exchange.Route says so), to know clients and their keys,
// and to remember anything beyond one exchange but connections.
//
// What outlives an exchange is behind ports: recovery.CredentialState for what cools off,
// replay.Ledger for attempts, their usage and evidence, recovery.Trace for decisions, and
// Exchange.Interrupted for the fence, which is told before the client is.
package transport
