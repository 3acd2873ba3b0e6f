package v1alpha1

import (
	"reflect"
	"strings"

	"slipway.dev/slipway/api/declare"
)

// Kind is one of our kinds.
type Kind = declare.Kind

// Kinds lists our kinds. They have no status: problems are reported as Events.
func Kinds() []Kind {
	return []Kind{
		kind("Middleware", "A named list of filters, for the Ingresses that reference it.", reflect.TypeFor[MiddlewareSpec]()),
		kind("TLSOption", "TLS options of the hosts of Ingresses that reference it.", reflect.TypeFor[TLSOptionSpec]()),
		kind("BackendTransport", "Transport options for the Services that reference it: certificates, timeouts and protocol.", reflect.TypeFor[BackendTransportSpec]()),
	}
}

// kind declares one of our kinds.
func kind(name, description string, spec reflect.Type) Kind {
	return Kind{
		Group: Group, Version: Version, Name: name, Plural: strings.ToLower(name) + "s", Description: description, Spec: spec,
		Categories: []string{"slipway"},
		Columns:    []declare.Column{{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"}},
	}
}

// CRDs are the CustomResourceDefinitions of all kinds, as one YAML text.
func CRDs() ([]byte, error) { return declare.CRDs(Kinds()) }
