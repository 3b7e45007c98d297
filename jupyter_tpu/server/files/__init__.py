"""The files of nodes by Jupyter's contents protocol, for the drives of JupyterLab. Start reading at `drive_routes`."""
