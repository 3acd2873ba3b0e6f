// Package edit changes images and other values in the YAML files of a repository and
// keeps the rest of each file as it is: comments, order, quotes and indentation.
//
//	path           values by a path of keys, for images in Helm values
//	kustomization  images of a kustomization
//	manifest       fields image of plain manifests
//	override       files of Argo CD beside the source
//	selector       fields by a JSON path
//	copy           values from one file to another, for promotions
//	document       parsing, comparison and writing of documents
//	splice         changes of the text itself
//
// Values are replaced in the text. The result is parsed again and compared with what
// was meant: where the text cannot be changed in place, such as in a flow mapping, the
// document is written from its nodes, with its comments. It is pure, and parses
// what users committed: files are bounded, and aliases are never expanded.
package edit
