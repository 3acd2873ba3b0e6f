// Package appset makes Applications from ApplicationSets, as Argo CD documents
// it: generators give sets of parameters, and a template makes an Application of
// each.
//
// [Generate] is pure: it asks [Facts] for clusters and files, and gives the
// Applications or an error. [Controller] keeps them in the cluster.
//
// # Generators
//
// list, clusters, git (directories and files), matrix, merge, each with a
// selector. Patterns of folders are Go's path.Match, where * is one part of the
// path; folders that begin with a dot are left out. Patterns of files are those
// of git: * takes slashes too, as it does in Argo CD unless that is changed.
// Numbers are decoded as Argo CD decodes them.
//
// # Promises
//
// It is all or nothing: if a repository cannot be read, a parameter is missing or
// one Application would be refused, there is an error that says where, and no
// Application is created, changed or deleted. The same input gives the same
// Applications in the same order. All is bounded: folders and files that are
// looked at, sets of parameters, Applications, time, and what templates do
// (package expand).
//
// The Controller writes only what differs. It deletes only Applications that it
// has made (their controller is the ApplicationSet) and only after everything was
// generated.
//
// # Tenants
//
// An Application is made in the namespace of its ApplicationSet, so that
// sourceNamespaces of the AppProject decides. An ApplicationSet outside of the
// control namespace has to name its project, without parameters; it reads only
// repositories that the project allows, and sees only clusters that are among
// the project's destinations. Argo CD has no such limit.
//
// # Refusals
//
// Names that occur twice, Applications in another namespace, templates of nested
// generators (Argo CD ignores them), fields that [v1alpha1.DecodeSet] refuses.
package appset
