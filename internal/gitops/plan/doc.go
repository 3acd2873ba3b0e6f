// Package plan computes what a sync of an Application does, and in which order.
//
// It is pure: from the rendered objects, the live ones and the options it makes
// a [Plan]; from the results so far it computes what can be done now
// ([Plan.Next]). It sends no request and never sleeps.
//
// # The course of a sync
//
// [Prepare] makes a [Set] of what was rendered: lists are flattened, namespaces
// filled in, hooks separated from resources, and every object is marked as the
// Application's. [Compare] compares live objects with it. [Build] makes the
// Plan. A loop calls Next, does what it returns, records the results in a
// [State], and calls it again. [Deletion] is the plan of an Application that is
// deleted. A rollback is a sync like any other, of what an older revision
// renders.
//
// # Order
//
// Steps are ordered by phase (PreSync, Sync, PostSync), wave, kind, name.
// Within a wave the kinds go one after the other, the objects of a kind
// together. Prunes come after everything is applied, from the highest wave to
// the lowest; those with PruneLast come last, and together. (Argo CD prunes
// each wave before it applies it; a resource that was moved can then be gone
// before the new one is accepted.) A Namespace or CustomResourceDefinition
// moves to the first wave that needs it.
//
// # Waiting
//
// As in Argo CD, a sync without hooks in a single wave has succeeded as soon as
// everything is applied. With more than one wave or phase, each must be healthy
// before the next one begins, and the objects of a prune wave must be gone; the
// last wave is waited for only if it has hooks. Prunes wait until everything is
// applied, and for its health only with PruneLast or if more follows. A
// Degraded object that is waited for fails the sync, and so does a hook that
// fails; hooks that still run are waited for, then SyncFail hooks run. Within a
// wave every object is tried before the sync fails, so that all errors are
// reported at once.
//
// Hooks are deleted by their policies when the sync is over, not earlier: a
// ServiceAccount that is a hook is ready at once, and the Job of a later wave
// needs it.
//
// # Guards
//
// Every object that would be touched, hooks, prunes and the created namespace
// included, passes the [Gate]. An object that is refused blocks the whole sync,
// as in Argo CD. Deleting an Application is different: objects that the Gate
// refuses then stay, and the rest is deleted; a delete hook that is refused
// blocks.
//
// Only objects with both of our marks are pruned, never one that another
// Application owns, that a controller owns, or that is the same object under
// another group. A render without resources prunes nothing unless AllowEmpty is
// set. While a rendered object is refused, nothing is pruned.
//
// # Refusals
//
// Objects without apiVersion, kind or name, metadata that is not text, hooks
// and waves without a meaning, kinds that neither the cluster nor the plan
// defines, hooks whose name another Application uses. Nothing is left out
// silently: every rendered object and every candidate for pruning is in a step,
// refused, or in [Plan.Skipped] with the reason.
package plan
