{{- /* The image by digest, or by tag. */ -}}
{{- define "apportion.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* The drivers of generic devices, once each, with commas. */ -}}
{{- define "apportion.genericDrivers" -}}
{{- $drivers := list -}}
{{- range .Values.features.genericDevices -}}
{{- $drivers = append $drivers .driver -}}
{{- end -}}
{{- $drivers | uniq | sortAlpha | join "," -}}
{{- end -}}

{{- /* The ConfigMap with the simulated cards: a new name for new cards, so that agents start anew. */ -}}
{{- define "apportion.simulationName" -}}
apportion-simulation-{{ .Values.agent.simulation | toYaml | sha256sum | trunc 10 }}
{{- end -}}

{{- /* What the operator's container may take: where nobody says how much memory, the page's is beside the operator's. */ -}}
{{- define "apportion.operatorResources" -}}
{{- $resources := deepCopy (.Values.operator.resources | default dict) -}}
{{- if and (kindIs "map" $resources.limits) (not (hasKey $resources.limits "memory")) -}}
{{- $_ := set $resources.limits "memory" (ternary "4Gi" "2Gi" .Values.features.web) -}}
{{- end -}}
{{- with $resources -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}
