// Package appset generates Applications from ApplicationSets, as Argo CD
// documents it: generators produce sets of parameters, and a template turns
// each into an Application.
//
// [Generate] is pure: it reads clusters and files through [Facts], and returns
// the Applications or an error. [Controller] reconciles them in the cluster.
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
// or one Application would be refused, the error names the place, and no
// Application is created, changed or deleted. The same input gives the same
// Applications in the same order. Everything is bounded: folders and files that
// are read, sets of parameters, Applications, time, and the work of templates
// (package expand).
//
// The Controller writes only what differs. It deletes only Applications that it
// created (their controller is the ApplicationSet), and only after a complete
// generation. A generation without any Application deletes none while some
// exist, unless an annotation of the set allows it. Argo CD deletes all.
//
// # Tenants
//
// An Application is created in the namespace of its ApplicationSet, so that
// sourceNamespaces of the AppProject decides. An ApplicationSet outside of the
// control namespace must name its project without parameters. It reads only
// repositories that the project allows, and sees only clusters among the
// project's destinations. Argo CD has no such limit.
//
// # Refusals
//
// Duplicate names, Applications in another namespace, templates of nested
// generators (Argo CD ignores them), fields that [v1alpha1.DecodeSet] refuses.
// Unknown fields have no effect, and a condition names them.
package appset
