// Package rollout reconciles Rollouts of Argo Rollouts: it makes ReplicaSets, scales
// them by the steps of a canary or by a blue-green switch, points Services at them,
// writes weights, and reports the same status as Argo Rollouts.
//
// A pass reads the Rollout and the objects that it names (observe.go), decides by
// [Decide], which is pure, and carries the decision out (write.go): the writes in
// order, then the status, once, with the resource version that was read. Watches only
// queue passes (controller.go).
//
// It promises that a pass which is cut off at any write is continued by the next one,
// that a Rollout with a part that is not supported is left alone, with the condition
// InvalidSpec, and that it does nothing while Argo Rollouts' own controller is in the
// cluster. It does not run experiments, plugins and routers of other controllers.
//
// See decision 0068 in docs/decisions.
package rollout
