// Package plugin calls config management plugins: programs in sidecars of the
// agent's Pod, each behind a server of Argo CD, argocd-cmp-server, on a Unix
// socket.
//
// A plugin gets the files of a revision as an archive and variables about the
// Application, and responds with manifests. It runs in its own container, with the
// image, the rights and the credentials that an administrator gave it; nothing of
// it runs in the agent. The protocol is gRPC, as Argo CD defines it in
// cmpserver/plugin/plugin.proto.
//
// A plugin is untrusted: a call has a deadline, and its response a limit. What it
// responds with is parsed in a render worker, and passes the gates of every
// rendered object.
//
// It refuses plugins that want the credentials of repositories, and sources with
// files that would be missing in the archive.
//
// See decision 0050 in docs/decisions: plugins in sidecars, by a right of the project.
package plugin
