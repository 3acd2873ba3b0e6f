package traefik

import (
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// StoreName is the name of the TLSStore that is used, as in Traefik.
const StoreName = "default"

// Store is the spec of a TLSStore. The Secrets in it are not resolved.
type Store struct {
	// Default is the certificate for names that have none; nil for that of the edge.
	Default *StoreSecret
	// Certificates are for the names in them.
	Certificates []StoreSecret
}

// StoreSecret is a Secret of the namespace of a TLSStore.
type StoreSecret struct{ Field, Name string }

// TLSStore decodes the spec of a TLSStore.
func TLSStore(object *snapshot.Resource) (Store, []refusal.Refusal) {
	found := &findings{}
	r := newRecord("spec", object.Spec, found)
	var store Store
	if _, set := r.take("defaultCertificate"); set {
		secret := storeSecret(r.inner("defaultCertificate"))
		store.Default = &secret
	}
	for _, certificate := range r.inners("certificates") {
		store.Certificates = append(store.Certificates, storeSecret(certificate))
	}
	r.refuse("defaultGeneratedCert", "let an IngressRoute with tls.certResolver and tls.domains request the certificate, and name its Secret in defaultCertificate")
	r.rest()
	return store, found.faults
}

// storeSecret decodes the reference to a Secret.
func storeSecret(r *record) StoreSecret {
	secret := StoreSecret{Field: r.at("secretName"), Name: r.text("secretName")}
	if secret.Name == "" {
		r.fault("secretName", refusal.Required, "name a Secret with a certificate")
	}
	r.rest()
	return secret
}
