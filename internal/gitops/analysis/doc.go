// Package analysis implements the analysis of Argo Rollouts: it makes AnalysisRuns of
// templates.
package analysis
