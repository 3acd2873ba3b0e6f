package route

// Certificate is a certificate chain with its key. It is used only for the
// hosts it lists: those of the Ingresses in its own namespace. The names in
// the certificate itself do not count, or one tenant could serve another's.
type Certificate struct {
	ID CertificateID `json:"id"`
	// Hosts are names or wildcards, as in Rule.Host. A certificate that is only
	// shown to backends has none.
	Hosts []string `json:"hosts,omitempty"`
	// Default shows the certificate to clients that name no host, or one that
	// has no certificate. There can be one such.
	Default bool `json:"default,omitempty"`
	// Chain is PEM, the leaf first.
	Chain string `json:"chain"`
	// Key is PEM.
	Key Secret `json:"key,omitzero"`
}

// Authority is a bundle of certificates that can vouch for others.
type Authority struct {
	ID AuthorityID `json:"id"`
	// Bundle is PEM.
	Bundle string `json:"bundle"`
}
