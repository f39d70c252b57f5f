package session

// Refusal is a request that was understood and not carried out. Nothing was changed.
type Refusal struct {
	Code    string // a code of the API: validation_failed, conflict, or a named conflict
	Message string // what is wrong, and what to do
	Details any    // of the named conflicts; may be nil
}

func (r *Refusal) Error() string { return r.Message }

// Named conflicts of the API.
const (
	CodeValidation          = "validation_failed"
	CodeConflict            = "conflict"
	CodeRunActive           = "run_active"
	CodeStaleRun            = "stale_run"
	CodeStaleToken          = "stale_token"
	CodeNotSafe             = "not_safe"
	CodeStaleRevision       = "stale_revision"
	CodeEffectsNotConfirmed = "effects_not_confirmed"
	CodeIdempotency         = "idempotency_mismatch"
	CodeUnavailable         = "unavailable"
	CodeRateLimited         = "rate_limited"
)
