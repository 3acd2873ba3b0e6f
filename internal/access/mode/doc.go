// Package mode determines the access mode of a runtime: tunnel, Ingress, HTTPRoute or
// service mesh. It validates settings and renders objects, and performs no I/O: its
// results depend on its arguments only, so the CLI, the agent and the preflight
// checks agree.
//
// It guarantees that the mode follows from the settings by one rule, that all
// problems are reported at once with the conflicting keys and a fix, and that the
// objects of all modes route the same three paths to the Service internal-router. So
// the platform reaches a runtime in the same way in every mode.
//
// It refuses to choose between contradictory settings.
package mode
