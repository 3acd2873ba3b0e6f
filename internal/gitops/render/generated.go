package render

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/render/job"
)

// addGenerated adds the objects that a config management plugin generates. The
// plugin is called by [Request.Resolve], after the worker has reported that its
// output is missing; here it is text like any other. The result is that of one
// revision: the plugin gets its name, and all files of it.
func (r *rendering) addGenerated(source *job.Source) error {
	r.report.Revision = true
	var options v1alpha1.ApplicationSourcePlugin
	if source.Source.Plugin != nil {
		options = *source.Source.Plugin
	}
	options.Name = cmp.Or(options.Name, source.Plugin)
	if options.Name == "" {
		return errors.New("no config management plugin that the project may use matches the source: name one in plugin.name")
	}
	text, err := json.Marshal(options)
	if err != nil {
		return err
	}
	wanted, by := job.Dependency{Plugin: string(text), Input: r.call.source}, fmt.Sprintf("plugin %q", options.Name)
	files, found := r.dependencies[wanted]
	if !found {
		return &job.Incomplete{Missing: []job.MissingDependency{{Dependency: wanted, By: by}}}
	}
	content, err := files.Read(job.PluginFile)
	if err != nil {
		return err
	}
	_, err = r.into.AddYAML("the output of "+by, content)
	return err
}
