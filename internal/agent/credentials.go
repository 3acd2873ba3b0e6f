package agent

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/agent/clusters"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/observe"
)

// takeSecrets takes the credentials of all labelled Secrets of the control
// namespace.
func (a *agent) takeSecrets(secrets []*corev1.Secret) {
	a.clusters.Take(secrets)
	slices.SortFunc(secrets, func(x, y *corev1.Secret) int { return cmp.Compare(x.Name, y.Name) })
	seen, present := map[types.NamespacedName]bool{}, map[types.UID]bool{}
	var refused []credential.RefusedSecret
	for _, secret := range secrets {
		if secret.Labels[credential.TypeLabel] == clusters.TypeCluster {
			continue
		}
		present[secret.UID] = true
		name := types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
		given, err := credential.Parse(secret)
		if err != nil {
			a.tellSecret(secret, err)
			refused = append(refused, credential.Refuse(secret, err))
			continue
		}
		seen[name] = true
		a.book.Set(name, given)
	}
	for name := range a.known {
		if !seen[name] {
			a.book.Remove(name)
		}
	}
	a.known = seen
	a.book.SetRefused(refused)
	maps.DeleteFunc(a.told, func(uid types.UID, _ string) bool { return !present[uid] })
	a.leading.credentialsChanged()
}

// tellSecret says once what is wrong with a version of a Secret.
func (a *agent) tellSecret(secret *corev1.Secret, err error) {
	if a.told[secret.UID] == secret.ResourceVersion {
		return
	}
	a.told[secret.UID] = secret.ResourceVersion
	a.log.Error("a Secret with credentials cannot be used", "secret", secret.Namespace+"/"+secret.Name, observe.KeyError, err)
}

// takeConfigMap takes one of the two ConfigMaps. One that is gone is empty.
func (a *agent) takeConfigMap(name string, found []*corev1.ConfigMap) {
	content := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if len(found) > 0 {
		content = found[0]
	}
	a.book.SetConfigMap(content)
	a.leading.credentialsChanged()
}
