// One streamed prompt to each of some models, with one of the SDKs for Node as it comes, its own
// retries included:
//
//	node prompt.mjs SDK BASE MODEL...
//
// What a program that uses the SDK would have at the end of each is printed as one line of JSON: the
// text, with the names and arguments of the calls that it would run, and the error.
import OpenAI from 'openai'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import { streamText, tool, jsonSchema } from 'ai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { createOpenAI } from '@ai-sdk/openai'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogleGenerativeAI } from '@ai-sdk/google'

const [sdk, base, ...models] = process.argv.slice(2)
const apiKey = 'key'
const messages = [{ role: 'user', content: 'Hello?' }]
const parameters = { type: 'object', properties: {} }

const openai = () => new OpenAI({ baseURL: `${base}/v1`, apiKey })
const anthropic = () => new Anthropic({ baseURL: base, apiKey })

const vercel = (provider) => async (model, hear) => {
  const run = (args) => { hear(`clock${JSON.stringify(args)}`); return 'noon' }
  const tools = { clock: tool({ inputSchema: jsonSchema(parameters), execute: run }) }
  for await (const part of streamText({ model: provider(model), messages, tools, onError() {} }).fullStream) {
    if (part.type === 'text-delta') hear(part.text)
    if (part.type === 'error') throw part.error
  }
}

const prompts = {
  async chat(model, hear) {
    const tools = [{ type: 'function', function: { name: 'clock', parameters } }]
    for await (const chunk of await openai().chat.completions.create({ model, messages, tools, stream: true })) {
      const delta = chunk.choices[0]?.delta
      hear(delta?.content)
      for (const { function: f } of delta?.tool_calls ?? []) hear((f.name ?? '') + (f.arguments ?? ''))
    }
  },
  async 'chat helper'(model, hear) {
    const answer = openai().chat.completions.stream({ model, messages })
    answer.on('content', hear)
    for (const call of (await answer.finalMessage()).tool_calls ?? []) hear(call.function.name + call.function.arguments)
  },
  async responses(model, hear) {
    for await (const event of await openai().responses.create({ model, input: 'Hello?', stream: true })) {
      if (event.type === 'response.output_text.delta') hear(event.delta)
      if (event.type === 'response.output_item.done' && event.item.type === 'function_call') hear(event.item.name + event.item.arguments)
      if (event.type === 'response.failed') throw new Error(event.response.error.message)
    }
  },
  async messages(model, hear) {
    for await (const event of await anthropic().messages.create({ model, max_tokens: 1000, messages, stream: true })) {
      if (event.type === 'content_block_start') hear(event.content_block.name)
      if (event.type === 'content_block_delta') hear(event.delta.text ?? event.delta.partial_json)
    }
  },
  async 'messages helper'(model, hear) {
    const answer = anthropic().messages.stream({ model, max_tokens: 1000, messages })
    answer.on('text', hear)
    for (const block of (await answer.finalMessage()).content) if (block.type === 'tool_use') hear(block.name + JSON.stringify(block.input))
  },
  async gemini(model, hear) {
    const client = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: base } })
    for await (const chunk of await client.models.generateContentStream({ model, contents: 'Hello?' })) {
      for (const part of chunk.candidates?.[0]?.content?.parts ?? []) {
        if (!part.thought) hear(part.text)
        if (part.functionCall) hear(part.functionCall.name + JSON.stringify(part.functionCall.args))
      }
    }
  },
  'ai chat': vercel(createOpenAICompatible({ name: 'reprise', baseURL: `${base}/v1`, apiKey })),
  'ai responses': vercel(createOpenAI({ baseURL: `${base}/v1`, apiKey }).responses),
  'ai messages': vercel(createAnthropic({ baseURL: `${base}/v1`, apiKey })),
  'ai gemini': vercel(createGoogleGenerativeAI({ baseURL: `${base}/v1beta`, apiKey })),
}

await Promise.all(models.map(async (model) => {
  let text = '', error = null
  try {
    await prompts[sdk](model, (s) => { text += s ?? '' })
  } catch (e) {
    error = `${e.constructor.name}: ${e.message}`
  }
  console.log(JSON.stringify({ model, text, error }))
}))
