// Package apply writes the objects of an Application to the cluster, and
// predicts what writing them would change.
//
// Most objects are written by one server-side apply, which takes over fields of
// other managers. Fields that only the API server sets (resourceVersion, uid
// and the like, as in a manifest that was dumped from a cluster) are left out.
//
// # Objects that other tools applied
//
// An object that kubectl apply or Argo CD made has fields that another manager
// owns, and a field that is then removed in Git would stay. So before the first
// apply of an object these become ours, once: what kubectl-client-side-apply
// and argocd-controller own; what kubectl-create, kubectl-edit and
// kubectl-replace own, if there is no other manager but that of the status; of
// before-first-apply only the entry is removed, because it owns everything that
// controllers set, too. The annotation
// kubectl.kubernetes.io/last-applied-configuration is removed with it: it shows
// the data of Secrets.
//
// # Secrets
//
// stringData is written as data. As it is, the API server would lose track of
// its keys, never remove one, and show a difference each time. Errors of the
// API server may quote values: those of a Secret are masked.
//
// # Objects that do not exist
//
// An object that was not there when its step was planned is only created: an
// apply would take over one that another client has created since, and that was
// not checked. One that exists is a [Conflict]. See decision 0058 in
// docs/decisions.
//
// # Immutable fields
//
// A change that the API server refuses because a field is immutable is an error
// that names the field. With Force the object is deleted in the background, as
// in Argo CD, and created when it is gone; if that fails, the old one is
// created again. With Force and Replace it is always deleted first.
//
// # Validation
//
// Fields that a kind does not have are an error. With Validate=false they are
// dropped.
//
// # Guarantees
//
// [Applier.Predict] returns the live object unchanged only if an apply
// certainly changes nothing, short of an admission webhook that changes objects
// by itself; otherwise it makes a dry run. A request that may succeed later is
// retried a few times, and is then an error of the kind [Transient]. A deletion
// has the uid of the planned object as a precondition.
//
// See decision 0014 in docs/decisions: objects are applied by one request,
// without fluxcd/pkg/ssa.
package apply
