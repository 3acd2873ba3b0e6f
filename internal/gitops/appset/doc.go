// Package appset reconciles the Applications of ApplicationSets: package
// generate makes them from the set, its repositories and clusters, and
// [Controller] creates, updates and deletes them in the cluster.
//
// # Promises
//
// It is all or nothing: if a repository cannot be read, a parameter is missing
// or one Application would be refused, no Application is created, changed or
// deleted. Applications are generated in a render worker, with limits on time,
// memory and output; what comes back is checked again.
//
// The Controller writes only what differs. It deletes only Applications that it
// created (their controller is the ApplicationSet), and only after a complete
// generation. A generation without any Application deletes none while some
// exist, unless an annotation of the set allows it, or all of its generators list
// pull requests. Argo CD deletes all.
//
// Pull requests of forks give nothing unless the set allows them, and there is a
// limit of them for each repository. The address of a preview that is ready is a
// comment on its pull request, once. See decision 0076 in docs/decisions: Previews
// are ApplicationSets; forks need a decision, and a comment has a key.
//
// # Tenants
//
// An Application is created in the namespace of its ApplicationSet, so that
// sourceNamespaces of the AppProject decides. An ApplicationSet reads only
// repositories that its project allows, and sees only clusters among the
// project's destinations; Argo CD has no such limit. Outside of the control
// namespace it must name its project without parameters. One in the control
// namespace whose project has parameters reads everything. An Application of
// another project is not taken over.
//
// Git hosts and plugins are requested within what the project allows too, and
// tokens come from Secrets in the namespace of the set; see decision 0047 in
// docs/decisions: input of generators passes the gate of sources.
//
// Unknown fields of a set have no effect, and a condition names them.
package appset
