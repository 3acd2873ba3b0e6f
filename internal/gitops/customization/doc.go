// Package customization reads what the ConfigMap argocd-cm sets about kinds of
// objects: health rules, actions, differences and spellings that do not count, in both
// spellings of Argo CD, and the kinds that are left out.
//
// A setting that is malformed has no effect and is a problem of the [Settings];
// the others count. Argo CD uses none of them then.
package customization
