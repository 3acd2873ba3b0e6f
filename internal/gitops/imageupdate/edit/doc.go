// Package edit changes images and other values in the YAML files of a repository and
// keeps the rest of each file as it is: comments, order, quotes and indentation.
//
// Values are replaced in the text. The result is parsed again and compared with what
// was meant: where the text cannot be changed in place, such as in a flow mapping, the
// document is written from its nodes, with its comments. It is pure, and parses
// what users committed: files are bounded, and aliases are never expanded.
package edit
