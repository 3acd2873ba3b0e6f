// Package snippet parses text of nginx's configuration, as the snippets of
// ingress-nginx contain it.
//
// It reads the text as nginx does: words in quotes or without, escapes, comments and
// blocks, with the line of each directive. It knows no directive. Size, depth, and the
// number of directives and words are bounded, and nothing is included, executed or
// looked up (decision 0059).
package snippet
