package agent

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/agent/clusters"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/source/signature"
	"slipway.dev/slipway/internal/observe"
)

// updateSecrets replaces the credentials by those of all labelled Secrets of
// the control namespace. A Secret that cannot be used is recorded with the
// reason, which the Applications of its repository or cluster show.
func (a *agent) updateSecrets(secrets []*corev1.Secret) {
	a.clusters.Update(secrets)
	if a.runtime != nil {
		// The Shared Configuration Repository has a file for each cluster.
		a.runtime.sharedRepository.Changed()
	}
	// The fixed order keeps log lines and conditions stable.
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
			a.logRefusedSecret(secret, err)
			refused = append(refused, credential.Refuse(secret, err))
			continue
		}
		seen[name] = true
		a.credentials.Set(name, given)
	}
	// Secrets that were deleted, or are refused now, lose their credential.
	for name := range a.loadedSecrets {
		if !seen[name] {
			a.credentials.Remove(name)
		}
	}
	a.loadedSecrets = seen
	a.credentials.SetRefused(refused)
	maps.DeleteFunc(a.reportedSecrets, func(uid types.UID, _ string) bool { return !present[uid] })
	// Repositories that failed are retried with the new credentials.
	a.leading.credentialsChanged()
}

// logRefusedSecret logs once for each version of a Secret why it is refused.
func (a *agent) logRefusedSecret(secret *corev1.Secret, err error) {
	if a.reportedSecrets[secret.UID] == secret.ResourceVersion {
		return
	}
	a.reportedSecrets[secret.UID] = secret.ResourceVersion
	a.log.Error("refused Secret with credentials", "secret", secret.Namespace+"/"+secret.Name, observe.KeyError, err)
}

// updateConfigMap replaces the known hosts or the certificate authorities. A
// ConfigMap that was deleted counts as empty.
func (a *agent) updateConfigMap(name string, found []*corev1.ConfigMap) {
	content := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if len(found) > 0 {
		content = found[0]
	}
	a.credentials.SetConfigMap(content)
	a.leading.credentialsChanged()
	if a.runtime != nil {
		a.runtime.integrations.Wake() // a token may be checked with it now
	}
}

// updateSignatureKeys takes the keys that sign commits. One that cannot be read signs
// nothing.
func (a *agent) updateSignatureKeys(found []*corev1.ConfigMap) {
	content := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: signature.ConfigMap}}
	if len(found) > 0 {
		content = found[0]
	}
	if _, problems := signature.Read(content.Data); len(problems) > 0 {
		a.log.Warn("keys of signatures cannot be read", "configmap", content.Namespace+"/"+content.Name, "detail", strings.Join(problems, "; "))
	}
	a.credentials.SetConfigMap(content)
	a.leading.signatureKeysChanged()
}
