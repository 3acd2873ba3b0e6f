package v1alpha1

import apischema "k8s.io/apimachinery/pkg/runtime/schema"

// ApplicationResource is where an API server has the Applications.
func ApplicationResource() apischema.GroupVersionResource { return resource("applications") }

// ProjectResource is where an API server has the AppProjects.
func ProjectResource() apischema.GroupVersionResource { return resource("appprojects") }

// SetResource is where an API server has the ApplicationSets.
func SetResource() apischema.GroupVersionResource { return resource("applicationsets") }

func resource(plural string) apischema.GroupVersionResource {
	return apischema.GroupVersionResource{Group: Group, Version: Version, Resource: plural}
}
