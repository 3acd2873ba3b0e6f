// Package evaluate computes a measurement from the response of a metrics provider: it
// decodes the response, selects a value and evaluates the conditions of the metric.
//
// Responses, paths and conditions are untrusted input, and an expression can take any
// time and memory. So the package is used in a render worker only, which has limits for
// both and no credentials, files or network. It is pure but for the clock.
//
//	evaluate    a response becomes a phase and a value
//	condition   expressions, in the language of Argo Rollouts
//	prometheus  responses of Prometheus
//
// See decision 0069 in docs/decisions: conditions of analysis are evaluated in a worker.
package evaluate
