// Package generate turns an ApplicationSet into Applications, as Argo CD
// documents it: generators produce sets of parameters, and a template turns
// each into an Application. See decision 0056 in docs/decisions: Argo CD's own
// controller decides what is right.
//
// It is pure: it reads clusters and files through [Facts], and returns the
// Applications or an error. Files of repositories and templates are untrusted
// input, so that it runs in a render worker.
//
// # Generators
//
// list, clusters, git (directories and files), matrix, merge, each with a
// selector. Patterns of folders are Go's path.Match, where * is one part of the
// path; folders that begin with a dot are left out. Patterns of files are those
// of git: * matches slashes too, as it does in Argo CD by default. Numbers are
// decoded as Argo CD decodes them.
//
// # Promises
//
// It is all or nothing: if a repository cannot be read, a parameter is missing
// or one Application would be refused, the error names the place. The same input
// gives the same Applications in the same order. Everything is bounded: folders
// and files that are read, sets of parameters, Applications, and the work of
// templates (package expand). The caller bounds time and memory.
//
// # Refusals
//
// Duplicate names, Applications in another namespace, fields that
// [v1alpha1.DecodeSet] refuses. Templates of nested generators have no effect, as
// in Argo CD; DecodeSet warns of them.
package generate
