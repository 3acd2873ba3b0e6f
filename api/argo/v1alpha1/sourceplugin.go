package v1alpha1

// ApplicationSourcePlugin has the options of a config management plugin.
type ApplicationSourcePlugin struct {
	Name       string                             `json:"name,omitzero" maxLength:"253" description:"Name of the plugin, as name or name-version of its plugin.yaml. When empty, it is the plugin that matches the source."`
	Env        []EnvEntry                         `json:"env,omitzero" description:"Variables for the plugin, which gets them with the prefix ARGOCD_ENV_."`
	Parameters []ApplicationSourcePluginParameter `json:"parameters,omitzero" description:"Parameters for the plugin, which gets them as JSON in ARGOCD_APP_PARAMETERS and as PARAM_ variables."`
}

// EnvEntry is a variable for a plugin.
type EnvEntry struct {
	Name  string `json:"name" required:"true" description:"Name of the variable."`
	Value string `json:"value" required:"true" description:"Its value, which may contain variables of the build environment such as $ARGOCD_APP_NAME."`
}

// ApplicationSourcePluginParameter is a parameter for a plugin. Its fields are
// in the order of Argo CD's JSON, which plugins read.
type ApplicationSourcePluginParameter struct {
	Array  []string          `json:"array,omitzero" description:"Value of a parameter that is a list."`
	Map    map[string]string `json:"map,omitzero" description:"Value of a parameter that is a map."`
	Name   string            `json:"name" description:"Name of the parameter."`
	String *string           `json:"string,omitzero" description:"Value of a parameter that is text."`
}
