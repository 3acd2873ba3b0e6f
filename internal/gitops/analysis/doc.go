// Package analysis carries out the analysis of Argo Rollouts: it makes AnalysisRuns of
// templates, takes their measurements, and writes their status with the same names,
// messages and sequence as Argo Rollouts' own controller.
//
//	template    templates become a run
//	controller  watches and queue
//	reconcile   one run: what is due, status, Events
//	schedule    when a metric is measured
//	measure     measurements become results
//	assess      results become the phase of the run
//	arguments   values of metrics, Secrets included
//	validate    what contradicts itself
//	provider    where measurements come from: web, prometheus, job, edge
//
// It promises that the state of a run is in its status alone, so that another process
// continues it; that values of Secrets are in no status; and that a provider which does
// not respond delays its own namespace only. Addresses are those that the policy for
// outgoing connections allows. Responses, paths and conditions are evaluated in a worker
// with limits on time and memory (package evaluate).
//
// It refuses other providers than those: the run has the phase Error and the name.
package analysis
