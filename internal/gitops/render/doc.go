// Package render turns the files of a revision into Kubernetes objects: Helm
// charts, kustomizations, folders of YAML, JSON and Jsonnet files.
//
// Repositories are untrusted input. They are rendered in a worker process: this
// program started again, without credentials, files or network, with limits on
// time, memory and output. The worker requests every file over its pipe, and
// gets it from a [tree.View] of the renderer. A loop or a crash in a template
// costs one worker, which is replaced; other renders go on.
//
// The same request on the same files gives the same objects, and [Result.Holds]
// reports whether another revision needs a render at all. Objects are of JSON
// types and have apiVersion and kind.
//
// Charts that a chart or a kustomization depends on, bases of other repositories
// and files that Git LFS keeps are fetched between renders by [Request.Resolve].
//
// It refuses everything that would run a program or use the network while it
// renders, such as plugins of Kustomize; files outside of the repository; and
// renders above the limits. An [Error] contains the way out.
//
// See decisions 0015 and 0045 in docs/decisions: renders remember what they
// read, and name what they lack.
package render
