package backend

import (
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// release is a Release that applies to the endpoints of a Service.
type release struct {
	view   *snapshot.View
	object *snapshot.Resource
	spec   v1alpha1.ReleaseSpec
}

// findRelease returns the Release of the Pods behind a Service, nil for none. Until all
// Pods of the namespace are known no Release applies: with a part of them, the requests
// of all would go to a few. A Service can have the Pods of one Release only.
func (b *builder) findRelease(all []candidate) *release {
	objects := b.view.Releases(b.service.Namespace)
	if len(objects) == 0 {
		return nil
	}
	state := b.view.Owners(b.service.Namespace)
	var found *release
	for _, object := range objects {
		r := &release{view: b.view, object: object}
		switch {
		case !b.readRelease(r):
		case state == snapshot.KindForbidden:
			b.refuseRelease(object, refusal.New("", refusal.Unreadable,
				"the edge may not list and watch Pods and ReplicaSets here: allow its role to, or requests are not divided"))
		case state != snapshot.KindKnown, !r.appliesTo(all):
		case found != nil:
			b.refuseRelease(object, refusal.New("spec.workload", refusal.Conflict,
				"the Service %s/%s has Pods of the Release %s too, which divides its requests: use a Service for each workload", b.service.Namespace, b.service.Name, found.object.Name))
		default:
			found = r
		}
	}
	return found
}

// readRelease decodes and validates a Release. One that is not valid divides nothing.
func (b *builder) readRelease(r *release) bool {
	problems := declare.Decode(r.object.Spec, &r.spec)
	if len(problems) > 0 {
		b.refuseRelease(r.object, refusal.New("spec."+problems[0].Field, refusal.Invalid, "%s", problems[0].Message))
		return false
	}
	checked := route.Backend{ID: b.result.Backend.ID, Release: r.shares()}
	if faults := checked.Validate(); len(faults) > 0 {
		b.refuseRelease(r.object, refusal.New("spec", refusal.Invalid, "%s", faults[0].Text()))
		return false
	}
	return true
}

// refuseRelease records a fault of a Release.
func (b *builder) refuseRelease(object *snapshot.Resource, fault *refusal.Refusal) {
	b.refuseOn(snapshot.Ref{Kind: snapshot.Release, Namespace: object.Namespace, Name: object.Name}, fault)
}

// named returns one of the two revisions of a Release.
func (r *release) named(name string) *v1alpha1.ReleaseRevision {
	for i := range r.spec.Revisions {
		if r.spec.Revisions[i].Name == name {
			return &r.spec.Revisions[i]
		}
	}
	return &v1alpha1.ReleaseRevision{}
}

// shares returns the Release as the table has it.
func (r *release) shares() *route.Release {
	share := func(name string) route.RevisionShare {
		revision := r.named(name)
		return route.RevisionShare{Hash: revision.Hash, Weight: uint32(revision.Weight), Commit: revision.Commit}
	}
	shares := &route.Release{
		Namespace: r.object.Namespace, Name: r.object.Name, UID: string(r.object.UID), ByClient: r.spec.By == v1alpha1.ReleaseByClient,
		Stable: share(v1alpha1.RevisionStable), Canary: share(v1alpha1.RevisionCanary),
	}
	if match := r.spec.Match; match != nil {
		shares.Header, shares.Cookie = matchOf(match.Header), matchOf(match.Cookie)
	}
	return shares
}

func matchOf(value *v1alpha1.ReleaseMatchValue) *route.ReleaseMatch {
	if value == nil {
		return nil
	}
	return &route.ReleaseMatch{Name: value.Name, Value: value.Value}
}

// appliesTo reports whether one of the endpoints is of one of the two revisions.
func (r *release) appliesTo(all []candidate) bool {
	for i := range all {
		if pod := r.podOf(&all[i]); pod != nil && r.ofReplicaSet(pod.Controller.UID) != "" {
			return true
		}
	}
	return false
}

// podOf returns the Pod of an endpoint, nil if it is not known yet, or is no Pod.
func (r *release) podOf(c *candidate) *snapshot.Owned {
	if c.pod == "" {
		return nil
	}
	pod := r.view.Owned(snapshot.Pod, r.object.Namespace, c.pod)
	if pod == nil || c.podUID != "" && c.podUID != pod.UID {
		return nil
	}
	return pod
}

// ofReplicaSet returns the revision with a ReplicaSet, empty for none.
func (r *release) ofReplicaSet(uid types.UID) route.Revision {
	switch string(uid) {
	case "":
	case r.named(v1alpha1.RevisionStable).ReplicaSet:
		return route.RevisionStable
	case r.named(v1alpha1.RevisionCanary).ReplicaSet:
		return route.RevisionCanary
	}
	return ""
}

// revisionOf returns the revision of an endpoint by who controls its Pod. A Pod that is
// not known yet has none, and so does one of a third revision of the workload. What does
// not belong to the workload is stable.
func (r *release) revisionOf(c *candidate) route.Revision {
	if c.pod == "" {
		return route.RevisionStable
	}
	pod := r.podOf(c)
	if pod == nil {
		return ""
	}
	controller := &pod.Controller
	if revision := r.ofReplicaSet(controller.UID); revision != "" {
		return revision
	}
	if controller.Kind != string(snapshot.ReplicaSet) {
		return route.RevisionStable
	}
	set := r.view.Owned(snapshot.ReplicaSet, r.object.Namespace, controller.Name)
	if set == nil || set.UID != controller.UID {
		return ""
	}
	if workload := &r.spec.Workload; set.Controller.Kind == workload.Kind && set.Controller.Name == workload.Name {
		return ""
	}
	return route.RevisionStable
}
