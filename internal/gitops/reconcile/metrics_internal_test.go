package reconcile

import "testing"

func TestResourceOf(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/pods":                                        "pods",
		"/api/v1/namespaces/shop/configmaps/one":              "configmaps",
		"/api/v1/namespaces/shop":                             "namespaces",
		"/api/v1/namespaces":                                  "namespaces",
		"/apis/apps/v1/namespaces/shop/deployments/web/scale": "deployments/scale",
		"/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/web/status":   "applications/status",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a.example.test": "customresourcedefinitions",
		"/apis/argoproj.io/v1alpha1": "",
		"/api/v1":                    "",
		"/version":                   "",
		"/":                          "",
	} {
		if got := resourceOf(path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}
