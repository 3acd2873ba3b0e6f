// Package health says how objects of a cluster are: from what an object itself
// says, by rules for each kind, without asking anybody.
//
// The built-in kinds have Argo CD's rules, and so have CronJob,
// CustomResourceDefinition, PodDisruptionBudget and the Rollout of Argo Rollouts,
// which Argo CD has scripts for. An Application of an Application is as its status says, which Argo CD
// leaves to be configured. An Ingress that our edge serves is as the edge says:
// refused, waiting for a certificate or for endpoints, or served. Every other
// kind is judged by the conditions that most controllers write.
//
// It promises that the same object gives the same result, word for word, so
// that a status is not written again because time went by; that no object makes
// it panic; and that what never ends is told: [WithDeadline] makes Progressing
// that takes too long Degraded, with the reason.
//
// It refuses to guess. An object that says nothing has no health, and does not
// count.
package health
