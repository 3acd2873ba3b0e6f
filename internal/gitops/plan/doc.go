// Package plan says what a sync of an Application does, and in which order.
//
// It is pure: it gets the rendered objects, the live ones and the options, and
// gives a [Plan]; it gets what has happened so far, and says what can be done
// now ([Plan.Next]). It asks no API server and never sleeps.
//
// # The way of a sync
//
// [Prepare] makes a [Set] of what was rendered: lists are flattened, namespaces
// filled in, hooks told from resources, and every object marked as the
// Application's. [Compare] says whether the live objects are as desired. [Build]
// makes the Plan. A loop then asks Next, does what it says, notes the results in
// a [State], and asks again. [Deletion] is the plan of an Application that is
// deleted. A rollback is a sync like any other, of what an older revision
// renders.
//
// # Order
//
// Steps are ordered by phase (PreSync, Sync, PostSync), wave, kind, name. Within
// a wave the kinds go one after the other, the objects of a kind together.
// Prunes come after everything is applied, from the highest wave to the lowest;
// those with PruneLast come last, and together. (Argo CD prunes each wave before
// it applies it; a resource that was moved can then be gone before the new one
// is accepted.) A Namespace or CustomResourceDefinition moves to the first wave
// that has something for which it is needed.
//
// # Waiting
//
// As in Argo CD, a sync without hooks in a single wave has succeeded as soon as
// everything is applied. With more than one wave or phase, each must be healthy
// before the next one begins, and what a prune wave deleted must be gone; the
// last wave is waited for only if it has hooks. Prunes wait until everything is
// applied, and for its health only with PruneLast or if more follows. Degraded
// fails the sync, and so does a hook that fails; hooks that still run are waited
// for, then SyncFail hooks run. Within a wave every object is tried before the
// sync fails, so that all errors are told at once.
//
// Hooks are deleted as their policies say when the sync is over, not earlier: a
// ServiceAccount that is a hook is ready at once, and the Job of a later wave
// needs it.
//
// # Guards
//
// Every object that would be touched, hooks, prunes and the created namespace
// included, passes the [Gate]. An object that is refused blocks all of the sync,
// as in Argo CD: half of an application is rarely what anybody wants. Deleting
// an Application is different: objects that the Gate refuses then stay where
// they are, and the rest is deleted; a delete hook that is refused blocks.
//
// Only objects with both of our marks are pruned, never one that another
// Application owns, that a controller owns, or that is the same object under
// another group. A render without resources prunes nothing unless AllowEmpty is
// set, however the sync was started.
//
// # Refusals
//
// Objects without kind or name, hooks and waves that mean nothing, kinds that
// the cluster does not know and nothing in the plan defines, hooks whose name
// another Application uses. Nothing is left out silently: what is rendered or
// could be pruned is in a step, refused, or in [Plan.Skipped] with the reason.
package plan
