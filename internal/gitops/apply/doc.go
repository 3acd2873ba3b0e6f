// Package apply writes the objects of an Application to the cluster, and says
// what writing them would change.
//
// In the common case an object is written by one server-side apply, which takes
// over fields that others own. The objects that it gets are not changed; what
// the API server sets itself (resourceVersion, uid and the like, as in a
// manifest that was dumped from a cluster) is left out.
//
// # Objects that others applied
//
// An object that kubectl apply or Argo CD made has fields that another manager
// owns, and what is then removed in Git would stay. So before the first apply of
// an object, once, these are made ours:
//
//   - what kubectl-client-side-apply and argocd-controller own (the latter by
//     Update, and by Apply if it applied server-side);
//   - what kubectl-create, kubectl-edit and kubectl-replace own, if nobody else
//     owns anything of the object but its status: then somebody made it by hand,
//     and Git takes over;
//   - of before-first-apply only the entry is removed. It owns all that was there,
//     including what controllers set, and that must stay.
//
// The annotation kubectl.kubernetes.io/last-applied-configuration is removed with
// it: it means nothing from then on, and shows the data of Secrets.
//
// # Secrets
//
// stringData is written as data. Applied as it is, the API server would forget
// which keys it gave, never remove one, and find a difference each time. Errors
// of the API server may quote what they could not read: values of a Secret are
// taken out of them.
//
// # What cannot be changed
//
// A change that the API server refuses because a field is immutable is an error
// that names the field. With the option Force the object is deleted, in the
// background as Argo CD does it, and created when it is gone. If that fails, the
// old one is created again. With Force and Replace it is always deleted first.
//
// # What it promises
//
// [Applier.Predict] says that an apply changes nothing only if that is certain,
// short of an admission webhook that changes objects on its own. It asks the API
// server when it is not. A request that may go well later is repeated a few
// times, and is then an error of the kind [Transient].
//
// # What it refuses
//
// Fields that a kind does not have, names that lead to another path, and to
// delete an object that is not the one that was planned to go.
package apply
