// Package reconcile syncs Applications and keeps them in sync.
//
// It watches Applications and AppProjects, and reconciles each Application in
// runs. A run resolves the sources, renders them or keeps the last rendering,
// compares it with the live objects, decides whether a sync starts, continues
// the one that runs, and writes the status; steps.go has the steps in order. No
// worker sleeps: what has to be waited for comes as an event, and what depends
// on time is in the queue.
//
// # Triggers
//
// An Application is reconciled when it or its project changed; when its
// repository has another revision, found by polling or reported by a webhook;
// when one of its objects changed; and at a time that the last run named: a
// retry, a sync window, a progress deadline, a repair in backoff.
//
// Repositories are polled, not Applications: one request for all that use it.
// An Application whose files are the same in the new revision is left as it is.
//
// # Guarantees
//
// One goroutine at a time works on an Application. A status is written only
// when it changed, once per run. What a client writes meanwhile is never
// overwritten: fields that clients write, too, are patched for the version that
// was read, or not at all.
//
// A restart continues where the process was. An operation that will wait is in
// the status with its results before it waits; other work is repeated, which
// changes nothing. A sync that was complete and not recorded is recorded then.
//
// When Git is away, a render fails, a rendered object is refused or the project
// is gone, a condition reports it, the last good state stays in the status, and
// nothing is pruned. Deleting an Application needs neither Git nor the project;
// outside of the control namespace its objects stay if there is no project.
//
// # Refusals
//
// Applications with fields that are not supported, unknown clusters, a second
// operation while one runs. Each is reported in the status or in an Event.
//
// # Holds
//
// An Application that went back to a revision is held there, although its
// sources name another one: comparison, self-heal and automated syncs are about
// the held revision until the sources give other objects, or a user syncs.
//
// See decisions 0027, 0036, 0065, 0082 and 0086 in docs/decisions: A reconcile run
// is a list of steps, the status of Applications is a subresource, and need not be,
// releases of plain Deployments, and holds, a sync that was not recorded is found by
// the digest of its objects, and a change that is certain is applied without a dry
// run.
package reconcile
