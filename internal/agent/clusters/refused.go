package clusters

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// refusedSecret is the Secret of a cluster that cannot be used, and why. An
// Application for that cluster shows it.
type refusedSecret struct {
	secret       string // namespace and name
	server, name string // of the cluster, as the Secret has them
	reason       string
}

// refuse describes a refused Secret by the address and name that it has, as far
// as they are written.
func refuse(about *corev1.Secret, reason string) refusedSecret {
	return refusedSecret{
		secret: about.Namespace + "/" + about.Name,
		server: strings.TrimSuffix(string(about.Data["server"]), "/"), name: string(about.Data["name"]),
		reason: reason,
	}
}

// refusals returns the Secrets that cannot be used.
func (b *Registry) refusals() []refusedSecret {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.refused)
}

// Refusal returns why the cluster with an address, or else with a name, cannot
// be deployed to although there is a Secret for it; empty if there is no such
// Secret. It implements reconcile.Destinations.
func (f *Fleet) Refusal(server, name string) string {
	server = strings.TrimSuffix(server, "/")
	f.mu.Lock()
	refused := slices.Concat(f.Registry.refusals(), f.failed)
	f.mu.Unlock()
	for _, one := range refused {
		if server != "" && one.server == server || server == "" && name != "" && one.name == name {
			return "its Secret " + one.secret + " is refused: " + one.reason
		}
	}
	return ""
}
