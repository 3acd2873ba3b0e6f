import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { queries } from "./app/queries";
import { router } from "./app/router";
import { Announcer } from "./ui/announce";
import { Toasts } from "./ui/toast";
import "./ui/tokens.css";
import "./ui/ui.css";

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no place for the console");
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
      <Toasts />
      <Announcer />
    </QueryClientProvider>
  </StrictMode>,
);
