// Package promotion moves versions of a Product through its environments: it reads
// values of files of an Application in the trigger environment and commits them to the
// files of the Applications in the next ones, in the order of a flow.
//
//	catalog      Products, flows, policies, templates, Environments and Applications
//	remote       Applications of other runtimes, as the platform knows them
//	template     which files and fields move
//	controller   which Promotion is due
//	start        Products whose promotions begin by themselves
//	begin        what a Promotion will do, checked before it begins
//	step         one environment: gates, commit, verification
//	files        where the files of an Application are
//	write        commits, each of them once
//	gate         approval, windows, health and traffic
//	status       the progress, which is recorded before anything is written
//	board        which version is where, for those who show it
//	request      what people request: start, approve, abort
//
// A step goes through these phases. Each arrow is a write of the status, and a commit is
// pushed only in the phase Writing, which names the branches before:
//
//	Pending -> Waiting -> Writing -> Reviewing -> Verifying -> Succeeded
//	           approval   commits    pull         Synced, Healthy,
//	           windows               requests     healthyFor, traffic
//
// A step fails when something is refused, when a pull request is closed, when a release
// is rolled back, and when the gate of traffic counts too many errors. The Promotion
// ends with it: nothing is reverted in Git, because a person has to decide what the
// right version is. Errors of servers are retried with backoff and fail nothing.
//
// A Promotion is one run. Its status has the commit of the source, so that all
// environments get the same values, and the newest commit of each branch before it is
// written to. A process that is killed and starts again searches from there for its
// commit, by a line of the message, before it makes one. So every environment gets one
// commit, whatever ends the process.
//
// An environment is promoted when its Applications are Synced and Healthy at a revision
// whose files have the values, and its gates are open.
//
// One worker has a Promotion at a time, and reads it from the API server before each
// run: a cached object could lack what another leader recorded. Everything else comes
// from watches, and every change makes the Promotions of its Product due.
//
// It refuses objects with fields that it does not know, Applications with several
// sources or with a chart of a repository, and templates that name no files: nothing is
// begun then.
//
// See decisions 0075 and 0093 in docs/decisions: Promotions are commits that are found
// again, and reach other runtimes by what the platform knows.
package promotion
