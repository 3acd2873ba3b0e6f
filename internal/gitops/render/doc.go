// Package render turns the files of a revision into Kubernetes objects: Helm
// charts, kustomizations, folders of YAML, JSON and Jsonnet files.
//
// What is in a repository was written by somebody else. It is rendered in a
// worker: this program started again, without credentials, files or network,
// with limits on time, memory and output. A worker asks for every file over its
// pipe, and gets it from a [tree.View]. So a render is only ever as wrong as the
// worker that it ran in, which is thrown away; other renders do not notice.
//
// It promises that the same request on the same files gives the same objects,
// and that [Result.Holds] says when another revision needs no render at all. It
// promises objects of JSON types that have apiVersion and kind.
//
// It refuses whatever would run a program or ask the network: remote bases,
// plugins and charts of Kustomize, dependencies of a chart that are not in the
// repository; files outside of the repository; and what is larger or slower
// than its limits. An [Error] says what to change.
package render
