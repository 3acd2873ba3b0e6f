// Package helmindex reads the index of a Helm repository: the versions of its
// charts with their digests and addresses, and nothing else.
//
// [Compact] turns an index into a text with a line for each chart, and [Find]
// reads the versions of one chart in that text. An index is untrusted and can
// have 100 MB, most of it descriptions that are not needed. So a render worker
// runs Compact, once for each index, and the agent only scans the compact form.
//
// Memory is bounded by the compact form and one entry of the index. That holds
// for JSON and for YAML as Helm writes it. Other YAML has to be decoded as a
// whole, and is refused above a few megabytes.
package helmindex
