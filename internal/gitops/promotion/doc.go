// Package promotion moves versions of a Product through its environments: it reads
// values of files of an Application in the trigger environment and commits them to the
// files of the Applications in the next ones, in the order of a flow.
//
//	catalog      Products, flows, policies, templates, Environments and Applications
//	template     which files and fields move
//	controller   which Promotion is due
//	begin        what a Promotion will do, checked before it begins
//	step         one environment: gates, commit, verification
//	write        commits, each of them once
//	gate         approval, windows, health and traffic
//	status       the progress, which is recorded before anything is written
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
// It refuses objects with fields that it does not know, Applications with several
// sources or with a chart of a repository, and templates that name no files: nothing is
// begun then.
//
// See decision 0075 in docs/decisions: Promotions are commits that are found again.
package promotion
