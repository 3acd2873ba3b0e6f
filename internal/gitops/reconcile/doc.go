// Package reconcile makes Applications live, and keeps them so.
//
// It reads Applications and AppProjects by watch, and works on each Application
// in passes. A pass asks what Git has, renders it or keeps what was rendered,
// compares it with what is live, decides whether a sync starts, lets the one
// that runs go on, and writes the status. Nothing in it sleeps: what has to be
// waited for comes as an event, and what depends on time is in one heap of
// times.
//
// # What makes a pass
//
//	the Application changed, or its project
//	its repository has another revision: by polling, or because a host told
//	one of its objects changed
//	a time came: a retry, a sync window, a deadline, a repair that had to wait
//
// Repositories are polled, and not Applications: one request for all that use
// it. An Application whose files are the same in the new revision is left as it
// is, with the revision in its status.
//
// # What it promises
//
// Work on one Application is done by one goroutine at a time. A status is
// written only when something that people see has changed. What a user writes
// meanwhile is never overwritten: what touches more than our own part of the
// status is written for the version that was read, or not at all.
//
// A program that is killed goes on where it was. What waits is in the status,
// with its results, before it is waited for; what does not is done again, which
// changes nothing.
//
// Git that is away, a render that fails, a project that is gone: the condition
// says so, the last good state goes on being told, and nothing is pruned.
// Deleting an Application needs neither.
//
// # What it refuses
//
// Applications whose spec we do not do completely, clusters that nobody added, a
// second operation while one runs, a rollback while syncs are automated. Each
// is told in the status or in an Event.
package reconcile
