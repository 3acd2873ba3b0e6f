// Package migration reports what an installation of Argo CD becomes when a
// runtime takes it over, and takes Applications over in groups.
//
//	assess       reads the installation and makes the report
//	settings     ConfigMaps
//	secrets      Secrets of repositories and clusters
//	kinds        AppProjects, and the fields of all kinds
//	sets         ApplicationSets, with the Applications that they generate
//	proof        an Application as the runtime would deliver it
//	destination  clusters that Applications are for
//	resources    objects that several Applications list, or none
//	group        the take-over of a group, and its way back
//
// It promises that the report names every object and every field with one of
// four effects, that it contains no value of a Secret, and that making it writes
// nothing. An Application is the same only if the runtime's own renderer and a
// dry run of the API server have shown it.
//
// It refuses to write: internal/gitops/migrate moves Applications.
//
// See decision 0048 in docs/decisions.
package migration
