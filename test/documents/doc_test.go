// Package documents follows the pages of docs/install, and the scripts of testdata that
// have the documents of a runtime, as a person does: every block
// runs as it stands there, in order, in a shell, with the built slipway, a
// kubectl, Helm's library as helm, and a cluster of its own.
//
// The hosts that the pages name are real here: a platform, a Git provider, registries
// and load balancers listen at addresses of a private network, with certificates that
// the machine trusts. What a cloud and a kubelet would do is done by the test: Services
// get addresses, and Pods with our image run as processes with the files, the rights
// and the arguments that the chart gives them.
//
// A block that the table does not know fails the test, and so does an entry without a
// block. What cannot run here is in the table with the reason, and the page shows the
// reader where it runs.
package documents
