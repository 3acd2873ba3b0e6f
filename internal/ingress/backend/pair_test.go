package backend_test

import (
	"sync"
	"testing"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
)

// newPair makes a certificate that vouches for itself, and its key, once.
var newPair = sync.OnceValues(func() (map[string]string, error) {
	pair, err := pkitest.Make(pkitest.Certificate{Names: []string{"cart.shop.svc"}, Subject: "cart", Authority: true}, nil)
	return map[string]string{"@chain": pair.Chain, "@key": pair.Key}, err
})

// filled gives the PEM that @chain and @key stand for in a Secret of a case.
func filled(t *testing.T, value string) []byte {
	t.Helper()
	pair := must.Get(newPair())(t)
	if real, found := pair[value]; found {
		return []byte(real)
	}
	return []byte(value)
}
