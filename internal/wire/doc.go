// Package wire has what agents, the platform and its clients say to each other:
// the messages of its folders, generated from the .proto files in proto/, and the
// few names and rules that both ends must agree on.
//
// The packages are versioned. Fields are added and never change their meaning: an
// agent works with a platform that is one version older or newer.
package wire
