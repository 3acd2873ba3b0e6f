package clusters

import (
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// refusedSecret is the refusal of the Secret of a cluster. An Application for
// that cluster shows it.
type refusedSecret struct {
	refusal.Refusal
	server, cluster string // address and name, as the Secret has them
}

// refuse describes a refused Secret.
func refuse(namespace, secret, server, cluster, message string) refusedSecret {
	about := refusal.Object{Kind: "Secret", Namespace: namespace, Name: secret}
	return refusedSecret{
		Refusal: refusal.Refusal{Object: about, Reason: refusal.Invalid, Message: message},
		server:  strings.TrimSuffix(server, "/"), cluster: cluster,
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
		if server != "" && one.server == server || server == "" && name != "" && one.cluster == name {
			return "its " + one.Object.String() + " is refused: " + one.Message
		}
	}
	return ""
}
