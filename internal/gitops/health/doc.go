// Package health computes the health of objects from the objects alone, by
// rules for each kind.
//
// The kinds that every cluster has are judged by rules in Go with Argo CD's
// results, and so are CronJob, CustomResourceDefinition, PodDisruptionBudget and
// the Rollout of Argo Rollouts. An Application in an Application has the health
// of its status, which Argo CD leaves to be configured. An Ingress of our edge
// has the health that the edge writes: refused, waiting for a certificate or for
// endpoints, or served. Kinds of other projects have the scripts of Argo CD's
// module. Every other kind is judged by the conditions that most controllers
// write. [Rules] puts scripts of settings before all of them.
//
// It promises that the same object gives the same result, word for word, so
// that a status is not written again because time passes; that no object makes
// it panic; and that no object waits for ever: [WithDeadline] turns Progressing
// that takes too long into Degraded, with the reason.
//
// It refuses to guess. An object without any of these fields has no health and
// does not count.
package health
