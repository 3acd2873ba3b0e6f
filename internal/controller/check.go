package controller

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/ingress/watch"
)

// Check returns what is wrong with valid options that package config cannot know:
// the syntax of Kubernetes, and files that they name. An edge with these options
// would not start.
func Check(options *config.Edge) error {
	k := options.Providers.KubernetesIngress
	if k == nil {
		return nil
	}
	problem := watch.Options{Namespaces: k.Namespaces, Selector: k.LabelSelector}.Validate()
	if _, err := authorityRoots(k.CertAuthFilePath); err != nil {
		problem = errors.Join(problem, fmt.Errorf("providers.kubernetesIngress.certAuthFilePath: %w", err))
	}
	if _, err := nginxDefaults(options); err != nil {
		problem = errors.Join(problem, err)
	}
	for _, name := range slices.Sorted(maps.Keys(options.CertificatesResolvers)) {
		given := options.CertificatesResolvers[name]
		_, err := resolverOf(name, &given.ACME)
		problem = errors.Join(problem, err)
	}
	return problem
}
