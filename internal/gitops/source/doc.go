// Package source resolves the source of an Application: its revision, and the
// files of that revision as a tree.Store.
//
// A Git repository is kept as a bare repository on the disk, with the wanted
// commits but without their history. A fetch transfers only objects that are
// new. Files are read from Git's objects; nothing is checked out and no program
// is run. Charts of Helm repositories and OCI registries are cached by their
// digests.
//
// Guarantees:
//   - Concurrent calls for one repository share one request, and a commit that
//     is on the disk needs none.
//   - A failure removes nothing: what was fetched stays readable after the
//     server, the branch or the folder is gone.
//   - A Store stays valid for as long as it is referenced.
//   - Memory does not grow with the size of repositories: packs stream to the
//     disk, large files are never in memory, refs and indexes have limits.
//   - No error and no log line contains a password: addresses have none.
//   - The disk space of each project has a limit. A project that exceeds it loses
//     what it used least recently, and nothing of others.
//   - Only sources that a project admitted are resolved, and what one credential
//     opened is never served for another.
//
// It refuses revisions that no branch, tag, commit or range can have, SSH hosts
// whose key is not in known_hosts, and repositories and charts above the
// limits. Every refusal is an [Error] with the way out in its message.
//
// See decisions 0016 and 0039 in docs/decisions: Git's protocol and packs on
// go-git's formats, without its repository, and the shares of projects.
package source
