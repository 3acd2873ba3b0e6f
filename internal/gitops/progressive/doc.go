// Package progressive reads Rollouts of Argo Rollouts and Releases of plain
// Deployments as one State, and requests actions: promote, abort, pause, resume,
// retry, undo. The command line and the API of a runtime use it.
//
// A Rollout gets the same patches as from Argo Rollouts' own plugin of kubectl, so
// that its controller, ours or upstream's, cannot distinguish the two. A Release
// gets an annotation, which its controller removes when it has acted.
//
// The package changes nothing by itself and keeps no state. A cluster without one
// of the kinds has none of its objects.
package progressive
