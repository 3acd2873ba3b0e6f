// Package operation carries out one plan to its end: a sync, a rollback, or the
// deletion of an Application.
//
// A [Run] owns one operation. It belongs to one goroutine, and does something
// only in [Run.Advance]: that notes how the objects are, does all that can be
// done, and returns. It is called again when one of the objects changed, or at
// [Outcome.Again]. Between calls nothing runs, so that a thousand operations
// that wait cost nothing.
//
// # The states of an operation
//
//	observing   what is live now is noted: health, what is gone
//	acting      the steps that can run do, some at a time; old hooks are deleted
//	waiting     Advance returns, with what it waits for
//	clearing    it has ended, and the hooks that are spent are deleted
//	ended       Succeeded or Failed; Advance changes nothing more
//
// # What counts as seen
//
// An object counts only if it is at least as new as the response to our write:
// an older one would be found healthy as it was before. The response itself is
// judged first, so that most objects are done without a look at the cluster.
// That an object is gone is believed of a watch that saw it go, or of the API
// server when no watch was open. The last state of a hook that is gone counts:
// a Job that its own time to live deletes has still succeeded.
//
// # Deadlines
//
// What is Progressing for longer than its kind or its annotation permits is
// Degraded, and fails the operation where it is waited for. The clock starts
// when the object was applied. After a restart that time is not known any more;
// it is then the latest of when the operation began, when the object was
// created, and when our last write changed it. A prune that takes too long
// fails a sync, which would keep every later one waiting otherwise. The
// deletion of an Application waits as long as it takes, and its message names
// for what.
//
// # Failures
//
// What the API server refuses fails the step. What may go well the next time (it
// is away, busy, or does not serve a new kind yet) is tried again, a few minutes
// at most and never within one Advance.
//
// # Restarts
//
// [Run.Results] is what an Application's status keeps, in Argo CD's shape, and
// [Marks] reads it back: what was done is not done again. A process that is
// killed between a write and the status is the exception. Writing an object
// again changes nothing; a hook that was just created is run again, as in Argo
// CD. Tries are counted from zero after a restart.
//
// It refuses to decide anything about order: that is what package plan is for.
package operation
