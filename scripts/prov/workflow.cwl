cwlVersion: v1.2
class: Workflow
label: Join files and sort their lines
inputs:
  parts: File[]
outputs:
  sorted:
    type: File
    outputSource: order/sorted
steps:
  join:
    run:
      class: CommandLineTool
      baseCommand: cat
      inputs:
        parts: { type: "File[]", inputBinding: { position: 1 } }
      outputs:
        joined: stdout
      stdout: joined.txt
    in: { parts: parts }
    out: [joined]
  order:
    run:
      class: CommandLineTool
      baseCommand: sort
      inputs:
        text: { type: File, inputBinding: { position: 1 } }
      outputs:
        sorted: stdout
      stdout: sorted.txt
    in: { text: join/joined }
    out: [sorted]
